package demo

import (
	"bytes"
	"embed"
	"fmt"
	"net/http"
	"regexp"

	g "maragu.dev/gomponents"
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
func (h *Handler) page() (http.Handler, error) {
	file, err := web.ReadFile("web/page.html")
	if err != nil {
		return nil, err
	}
	text, err := fill(string(file), h.parts())
	if err != nil {
		return nil, fmt.Errorf("demo: render page: %w", err)
	}
	return asset("page.html", text), nil
}

// placeMark matches a place in page.html that is filled in, such as {{store}}.
var placeMark = regexp.MustCompile(`\{\{([a-z-]+)\}\}`)

// fill replaces every mark in page with the part of its name.
func fill(page string, parts map[string]g.Node) ([]byte, error) {
	var text bytes.Buffer
	end := 0
	for _, place := range placeMark.FindAllStringSubmatchIndex(page, -1) {
		name := page[place[2]:place[3]]
		part, ok := parts[name]
		if !ok {
			return nil, fmt.Errorf("no part is named %s", name)
		}
		text.WriteString(page[end:place[0]])
		if err := part.Render(&text); err != nil {
			return nil, err
		}
		end = place[1]
	}
	text.WriteString(page[end:])
	return text.Bytes(), nil
}

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
