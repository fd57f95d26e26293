// Package memcachedstore keeps state in memcached.
package memcachedstore
