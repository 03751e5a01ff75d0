"""Tables keep drills, scenarios of a workspace, schedules and the drill stop."""

from simulator.drills.models.tables import Drill, DrillStop, Schedule, StoredScenario, Strike

__all__ = ["Drill", "DrillStop", "Schedule", "StoredScenario", "Strike"]
