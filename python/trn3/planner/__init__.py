"""Plans: what a language model takes on a system.

`plan` answers for one layout, or finds the best; `search` ranks layouts by an objective. Models
come from the ``config.json`` of a checkpoint, from a TOML file of the same keys, or by name.

Examples
--------
>>> import trn3
>>> plan = trn3.plan("openai/gpt-oss-120b", "gen2", tp=8, batch=8, context=10_000)
>>> plan.fits, plan.layout.ep, plan.bottleneck
(True, 8, 'layer overhead')
>>> round(plan.decode_floor_seconds * 1e3, 1)  # ms: the bytes of a step at the peak of the memory
2.0
>>> [text for text in plan.assumptions if "layer overhead" in text][0][:30]
'layer overhead: 118 us a layer'
"""

from __future__ import annotations

from trn3.planner.fleet import Goodput, ServingCapacity, capacity, goodput
from trn3.planner.load import live, serve, size
from trn3.planner.load_results import (
    ServedLoad,
    SizedFleet,
    SizedFleets,
    SizedOnSystem,
)
from trn3.planner.models import Model, families, model, models
from trn3.planner.operator_table import OperatorTable, operators
from trn3.planner.parts import (
    FrontierPoint,
    Layout,
    LoadTimeline,
    MemoryRow,
    MemoryTable,
    Part,
    Phase,
    PlanCost,
    PlanEnergy,
    PlanPhase,
    Searched,
)
from trn3.planner.results import Plan, Search
from trn3.planner.serving import plan, search
from trn3.planner.training import Training, TrainingPlan, TrainingSearch
from trn3.system import DoesNotFitError

__all__ = [
    "DoesNotFitError",
    "FrontierPoint",
    "Goodput",
    "Layout",
    "LoadTimeline",
    "MemoryRow",
    "MemoryTable",
    "Model",
    "OperatorTable",
    "Part",
    "Phase",
    "Plan",
    "PlanCost",
    "PlanEnergy",
    "PlanPhase",
    "Search",
    "Searched",
    "ServedLoad",
    "ServingCapacity",
    "SizedFleet",
    "SizedFleets",
    "SizedOnSystem",
    "Training",
    "TrainingPlan",
    "TrainingSearch",
    "capacity",
    "families",
    "goodput",
    "live",
    "model",
    "models",
    "operators",
    "plan",
    "search",
    "serve",
    "size",
]
