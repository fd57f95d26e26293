package httplimit

import (
	"net/http"

	"github.com/headgate/headgate/clientaddr"
)

// KeyText returns the text of a key for a request. It trusts no header field.
func KeyText(k Key, r *http.Request) string {
	resolver, err := clientaddr.New(nil)
	if err != nil {
		panic(err)
	}
	compiled, err := k.compile()
	if err != nil {
		panic(err)
	}
	return string(compiled.Append(nil, keyRequest{r, &client{resolver: resolver}}))
}
