"""Lambda entry points: thin flow over adapters; the only place with Powertools and boto3."""
