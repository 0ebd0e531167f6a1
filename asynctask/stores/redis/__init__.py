"""RedisStore: snapshots in Redis or Valkey, for any number of instances. Needs the extra `redis`."""

from asynctask.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
