"""An identity provider signs people in by OpenID Connect."""
