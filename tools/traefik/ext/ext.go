// Package ext replaces the package of the same name that Traefik's repository contains
// as a module that is never tagged. Its types extend Traefik's configuration; in Traefik,
// too, they are empty.
package ext

// HTTP extends the HTTP configuration.
type HTTP struct{}

// Router extends a router.
type Router struct{}

// RouterIng extends the annotations of a Kubernetes Ingress.
type RouterIng struct{}

// ToRouter returns the extension of the Ingress's router.
func (RouterIng) ToRouter() Router { return Router{} }
