"""Models that a cloud serves under its own addresses and its own sign-in: Azure OpenAI, Amazon Bedrock, Google Vertex AI."""
