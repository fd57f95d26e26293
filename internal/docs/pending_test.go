package docs

// pending lists, for each check, the pages that do not pass it yet. Pages are only
// removed: a test fails if a listed page passes, or if a list grows. A new page must pass
// all checks.
var pending = map[string]list{
	"snippets": {max: 0},
}

// list is a list of pages. max is its length when it was written.
type list struct {
	max   int
	pages []string
}
