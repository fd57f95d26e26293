package answerfields

import (
	"net/http"
	"slices"
	"strings"
)

// denyStatuses are the statuses that a denial can have.
var denyStatuses = map[string]int{
	"200": http.StatusOK, "403": http.StatusForbidden, "429": http.StatusTooManyRequests, "503": http.StatusServiceUnavailable,
}

// DenyStatus returns the status for a denial: the value of the query parameter called
// name, or else 429. It returns false if the value is not one of accepted, or if the
// parameter is repeated. It ignores all other parameters, because a proxy may have added
// the parameters of the client's request.
func DenyStatus(query, name string, accepted ...int) (status int, ok bool) {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, value, found := strings.Cut(pair, "=")
		if !found || key != name {
			continue
		}
		if status != 0 || !slices.Contains(accepted, denyStatuses[value]) {
			return 0, false
		}
		status = denyStatuses[value]
	}
	if status == 0 {
		status = http.StatusTooManyRequests
	}
	return status, true
}
