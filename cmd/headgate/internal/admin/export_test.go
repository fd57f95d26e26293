package admin

import "github.com/headgate/headgate/cmd/headgate/internal/access"

// Operation is an operation of the JSON API.
type Operation struct {
	Method, Path string
	Scope        access.Scope
}

// Operations returns all operations of the JSON API.
func Operations() (all []Operation) {
	for _, o := range operations {
		all = append(all, Operation{o.method, o.path, o.scope})
	}
	return all
}

// APIPrefix is the beginning of their paths.
const APIPrefix = apiPrefix
