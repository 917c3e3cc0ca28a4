"""The command line, the embedded AWS and the web view; never shipped to Lambda."""
