"""Who may call: addresses, tokens, TLS."""

from serving.security.access import Access, LocalReloads, OpenAccess, TokenAccess
from serving.security.addresses import is_loopback
from serving.security.tls import channel_credentials, server_credentials
from serving.security.tokens import TokenFile, read_tokens

__all__ = [
    "Access",
    "LocalReloads",
    "OpenAccess",
    "TokenAccess",
    "TokenFile",
    "channel_credentials",
    "is_loopback",
    "read_tokens",
    "server_credentials",
]
