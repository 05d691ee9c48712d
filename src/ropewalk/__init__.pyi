"""The public names, the only list of them: what type checkers see, and what ``__init__.py`` resolves."""

from ropewalk._version import __version__ as __version__
from ropewalk.checking.records import CheckResult as CheckResult
from ropewalk.core import attend as attend
from ropewalk.core import check as check
from ropewalk.core import inspect as inspect
from ropewalk.core import measure as measure
from ropewalk.core import plan as plan
from ropewalk.core import serve as serve
from ropewalk.errors import CheckpointError as CheckpointError
from ropewalk.errors import CheckpointMissingError as CheckpointMissingError
from ropewalk.errors import EngineError as EngineError
from ropewalk.errors import EngineFailedError as EngineFailedError
from ropewalk.errors import EngineMissingError as EngineMissingError
from ropewalk.errors import EngineTimeoutError as EngineTimeoutError
from ropewalk.errors import HubError as HubError
from ropewalk.errors import NegativePlanError as NegativePlanError
from ropewalk.errors import RopewalkError as RopewalkError
from ropewalk.errors import RunActiveError as RunActiveError
from ropewalk.errors import RunMissingError as RunMissingError
from ropewalk.errors import RunStoreError as RunStoreError
from ropewalk.errors import UsageError as UsageError
from ropewalk.findings import Finding as Finding
from ropewalk.inspector.layer_kinds import LayerGroup as LayerGroup
from ropewalk.inspector.records import Fact as Fact
from ropewalk.inspector.records import Inspection as Inspection
from ropewalk.lab.records import Attention as Attention
from ropewalk.measuring.records import ArmResult as ArmResult
from ropewalk.measuring.records import Comparison as Comparison
from ropewalk.measuring.records import Measurement as Measurement
from ropewalk.measuring.records import RecallCell as RecallCell
from ropewalk.measuring.settings import MeasureSettings as MeasureSettings
from ropewalk.measuring.settings import RunRequest as RunRequest
from ropewalk.planner.records import Fit as Fit
from ropewalk.planner.records import Launch as Launch
from ropewalk.planner.records import Memory as Memory
from ropewalk.planner.records import MemoryTerm as MemoryTerm
from ropewalk.planner.records import Plan as Plan
from ropewalk.planner.records import PlanRequest as PlanRequest
from ropewalk.planner.records import RopeDecision as RopeDecision
from ropewalk.serving.preflight import PreflightError as PreflightError
from ropewalk.serving.service import ServeSettings as ServeSettings
from ropewalk.serving.service import Service as Service

__all__: list[str]
