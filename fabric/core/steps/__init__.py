"""Steps of agents: model requests, tool calls and outputs."""
