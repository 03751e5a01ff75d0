"""The program reads an endpoint's refusal, names its cause and the setting that corrects it."""
