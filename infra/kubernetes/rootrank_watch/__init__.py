"""Watches jobs on Kubernetes and tells rootrank's event bus how each attempt ended."""
