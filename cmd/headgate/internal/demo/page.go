package demo

import (
	"embed"
	"net/http"

	"github.com/headgate/headgate/cmd/headgate/internal/webpage"
)

// web contains the files that a browser loads. They are served as they are, without a
// build step.
//
//go:embed web
var web embed.FS

// docsURL is the URL of the documentation.
const docsURL = "https://github.com/headgate/headgate/blob/main/docs"

// preset is a limit that the page offers as an example.
type preset struct {
	Label                             string
	Rate, Seconds, Burst, Queue, Cost int64
}

func presets() []preset {
	return []preset{
		{"This demo: 10 per 4 s", 10, 4, 20, 9, 1},
		{"API: 100 per s, burst 200", 100, 1, 200, 99, 1},
		{"GitHub: 5,000 per hour", 5000, 3600, 5000, 4999, 1},
		{"Login: 5 per 15 min", 5, 900, 5, 4, 1},
		{"LLM: 10,000 tokens per min, 800 each", 10_000, 60, 10_000, 9999, 800},
		{"SMS: 3 per min", 3, 60, 3, 2, 1},
	}
}

// choice is an option in a selection list of the page.
type choice struct{ Value, Label string }

// page returns the handler for the page. The page is rendered only once, because it is
// the same for all clients.
func (h *Handler) page() (http.Handler, error) { return webpage.Render(web, h.parts()) }

func dialectChoices() []choice {
	says := map[string]string{
		"ietf": "IETF draft 11", "draft-07": "IETF draft 7", "draft-06": "IETF draft 6", "draft-03": "IETF draft 3",
		"x-ratelimit": "X-RateLimit (seconds)", "x-ratelimit-epoch": "X-RateLimit (Unix time)",
		"github": "GitHub", "off": "none",
	}
	var all []choice
	for _, d := range dialects() {
		all = append(all, choice{string(d), says[string(d)]})
	}
	return all
}
