"""The only place with boto3: bucket, table, topic, workflow, settings."""
