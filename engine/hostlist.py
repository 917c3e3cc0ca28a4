"""Host lists under the name that the engine knows them by; they live beside the models."""

from engine.model.hostlist import MAX_HOSTS, compact_hostlist, expand_hostlist, split_hostlist

__all__ = ["MAX_HOSTS", "compact_hostlist", "expand_hostlist", "split_hostlist"]
