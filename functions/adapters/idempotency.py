"""Powertools Idempotency over our own table: pk = IDEMPOTENCY, sk = the hash of the key."""

from typing import Final

from aws_lambda_powertools.utilities.idempotency import (
    BasePersistenceLayer,
    DynamoDBPersistenceLayer,
)

from functions.adapters.results_table import ResultsTable

PARTITION: Final = "IDEMPOTENCY"


def idempotency_store(table: ResultsTable) -> BasePersistenceLayer:
    """Return the store; its items end with the table's own time to live."""
    return DynamoDBPersistenceLayer(
        table_name=table.name,
        key_attr="pk",
        sort_key_attr="sk",
        static_pk_value=PARTITION,
        expiry_attr="expires_at",
        boto3_client=table.client,
    )
