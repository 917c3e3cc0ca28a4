"""All kinds: importing the modules fills the table."""

from tests.lab import (
    kinds_clean,
    kinds_frameworks,
    kinds_mpi,
    kinds_network,
    kinds_process,
    kinds_program,
    kinds_slurm,
    kinds_storage,
)
from tests.lab.registry import KINDS, Kind

__all__ = ["KINDS", "Kind"]
MODULES = (kinds_process, kinds_program, kinds_network, kinds_storage, kinds_mpi)
MODULES += (kinds_slurm, kinds_frameworks, kinds_clean)
