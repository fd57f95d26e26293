// Package webpage serves embedded web pages: the demo page and the dashboard. A page is a
// folder web with page.html, style.css and ES modules in js, without a build step. The
// package adds what the pages share: colours, icon, basic styles, the choice of the
// theme, and announcements for screen readers.
//
// All files have the same origin; the Content-Security-Policy of [Harden] permits no
// others, no inline scripts and no inline styles. All paths in a page are relative, so it
// can be mounted under any prefix.
package webpage

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"

	g "maragu.dev/gomponents"
	"maragu.dev/gomponents/html"

	"github.com/headgate/headgate/internal/theme"
)

// shared contains the files that all pages share.
//
//go:embed web
var shared embed.FS

// themeScript is the script that runs before the first paint. It is not a module.
const themeScript = "theme.js"

// policyText is the Content-Security-Policy. It permits only resources of the same
// origin, and neither inline scripts nor inline styles.
const policyText = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Harden sets header fields that restrict what a browser does with a response.
func Harden(header http.Header) {
	header.Set("Content-Security-Policy", policyText)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
}

// Add adds a route for the icon, for each shared file, and for each file of the folder
// web of page except page.html. The style sheet begins with the colours of the theme and
// the shared styles.
func Add(mux *http.ServeMux, page fs.FS) error {
	mux.Handle("GET /icon.svg", Asset("icon.svg", []byte(theme.Icon)))
	base, err := shared.ReadFile("web/base.css")
	if err != nil {
		return err
	}
	for _, files := range []fs.FS{shared, page} {
		err := fs.WalkDir(files, "web", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || path.Base(name) == "page.html" || path.Base(name) == "base.css" {
				return err
			}
			content, err := fs.ReadFile(files, name)
			if path.Base(name) == "style.css" {
				content = slices.Concat([]byte(theme.Tokens), base, content)
			}
			mux.Handle("GET "+name[len("web"):], Asset(name, content))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Modules returns a link for each module of the page and each shared one, so that a
// browser loads them in parallel and not one import after another.
func Modules(page fs.FS) (links g.Group) {
	for _, files := range []fs.FS{shared, page} {
		names, err := fs.Glob(files, "web/js/*.js")
		if err != nil {
			panic(err) // unreachable: the pattern is valid
		}
		for _, file := range names {
			if name := path.Base(file); name != themeScript {
				links = append(links, html.Link(html.Rel("modulepreload"), html.Href("js/"+name)))
			}
		}
	}
	return links
}

// placeMark matches a place in page.html that is filled in, such as {{store}}.
var placeMark = regexp.MustCompile(`\{\{([a-z-]+)\}\}`)

// Render returns a handler for web/page.html of page, in which every mark is replaced by
// the part of its name. The page is rendered only once.
func Render(page fs.FS, parts map[string]g.Node) (http.Handler, error) {
	file, err := fs.ReadFile(page, "web/page.html")
	if err != nil {
		return nil, err
	}
	text, err := fill(string(file), parts)
	if err != nil {
		return nil, fmt.Errorf("webpage: render page: %w", err)
	}
	return Asset("page.html", text), nil
}

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
