"""The scoreboard of misbehaviour: each scenario over real HTTP against a new fabric's defaults, in each tier, judged by what a caller sees."""
