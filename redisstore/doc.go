// Package redisstore keeps state in Redis (6.2 or later) or Valkey, where many processes share it.
//
// A decision is one round trip: a script reads the key, takes the same exact step as the Go code in package algo does, and writes
// the key back with its time to live. The server's clock decides.
package redisstore
