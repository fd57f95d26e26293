package httplimit

import (
	"net/http"

	"github.com/headgate/headgate/clientaddr"
)

// KeyText is the text of a key for a request of which no header field is trusted.
func KeyText(k Key, r *http.Request) string {
	resolver, err := clientaddr.New(nil)
	if err != nil {
		panic(err)
	}
	ready, err := k.compile()
	if err != nil {
		panic(err)
	}
	return string(ready.Append(nil, keyRequest{r, &client{resolver: resolver}}))
}
