// Package hooks has functions of the root package that other packages of this project
// call and that are not part of the public API. The root package sets them in an init
// function; package root calls them with their types.
package hooks

// The functions. Their types need the root package, which imports this one.
var (
	Combine  any // func([]headgate.Decision) headgate.Decision
	Tightest any // func([]headgate.Decision) int
	Rules    any // func(headgate.Policy) []headgate.Rule
)
