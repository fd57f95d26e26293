// Checkhttp checks a limit of the service with net/http, over the HTTP API.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"
)

func newClient() *http.Client {
	ms, _ := strconv.Atoi(cmp.Or(os.Getenv("RATE_LIMIT_TIMEOUT_MS"), "200"))
	return &http.Client{Timeout: time.Duration(ms) * time.Millisecond} // one for the program
}

// [snippet check]
type request struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`
}

type decision struct {
	Allowed      bool  `json:"allowed"`
	Remaining    int64 `json:"remaining"`
	RetryAfterMS int64 `json:"retry_after_ms"`
}

func check(client *http.Client, url string, r request) (d decision, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return d, err
	}
	resp, err := client.Post(url+"/v1/check", "application/json", bytes.NewReader(body))
	if err != nil {
		return d, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body) // to the end, so that the connection is reused
	if err != nil {
		return d, err
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTooManyRequests {
		return d, fmt.Errorf("headgate: %s: %s", resp.Status, text)
	}
	return d, json.Unmarshal(text, &d)
}

// [end check]

func main() {
	client := newClient()
	url := cmp.Or(os.Getenv("RATE_LIMIT_HTTP"), "http://127.0.0.1:8080")
	for range 4 {
		d, err := check(client, url, request{Policy: "api", Key: "net/http:user:42"})
		switch {
		case err != nil:
			log.Print(err)
			fmt.Println("not decided: allowed") // fail open; for a login deny here (fail closed)
		case d.Allowed:
			fmt.Printf("allowed, %d left\n", d.Remaining)
		default:
			fmt.Printf("denied, Retry-After: %d\n", (d.RetryAfterMS+999)/1000)
		}
	}
}
