"""The descriptor pool of this package's messages.

protobuf's default pool holds each file and each message once a process. The server's package registers the same names
there; where it is another version of it, a second registration would fail the import of whichever comes later.
"""

from google.protobuf import descriptor_pool

POOL = descriptor_pool.DescriptorPool()
