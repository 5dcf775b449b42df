"""The descriptor pool of this package's messages.

protobuf's default pool has each file and message once per process. Other generated code registers the same names there,
and if it were of another version, the second registration would fail.
"""

from google.protobuf import descriptor_pool

POOL = descriptor_pool.DescriptorPool()
