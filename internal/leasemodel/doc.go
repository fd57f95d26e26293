// Package leasemodel contains a model of leases in Promela, and the test that checks it
// with spin. docs/internals/leases.md explains both.
package leasemodel
