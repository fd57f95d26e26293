#!/bin/sh
# One check with the published Lua script. Run it in the root of the repository.
set -eu
port=${REDIS_PORT:-6379}
# [snippet check]
sha=$(redis-cli -p "$port" -x SCRIPT LOAD < redisstore/contract/headgate-v1.lua)
redis-cli -p "$port" EVALSHA "$sha" 1 user:42 check token_bucket 10 1000000 20 1
# [end check]
