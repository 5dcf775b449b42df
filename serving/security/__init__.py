"""Who may call: addresses, tokens, TLS; and whose versions are loaded."""

from serving.security.access import Access, LocalReloads, TokenAccess, check_role, holder_of
from serving.security.addresses import caller_at, host_and_port, is_loopback, is_loopback_header
from serving.security.reread import Reread
from serving.security.signature import VersionKey, verified
from serving.security.tls import ServerCertificate, channel_credentials
from serving.security.tokens import METRICS, TokenFile, read_tokens

__all__ = [
    "METRICS",
    "Access",
    "LocalReloads",
    "Reread",
    "ServerCertificate",
    "TokenAccess",
    "TokenFile",
    "VersionKey",
    "caller_at",
    "channel_credentials",
    "check_role",
    "holder_of",
    "host_and_port",
    "is_loopback",
    "is_loopback_header",
    "read_tokens",
    "verified",
]
