"""Lambda entry points: thin flow over adapters; the only place with Powertools and boto3."""

import gc
import os

if "LAMBDA_TASK_ROOT" in os.environ:
    # Imports make a hundred thousand objects that live to the end: looking through them for
    # cycles at the default pace is a tenth of a cold start.
    gc.set_threshold(50_000, 20, 50)
