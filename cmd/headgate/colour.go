package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

// levelColours are the escape sequences of terminals that set the colour of a level.
var levelColours = map[storeopen.Level]string{
	storeopen.Fine: "\x1b[32m", storeopen.Warning: "\x1b[33m", storeopen.Failing: "\x1b[31m",
}

// coloured returns the name of a level in its colour.
func coloured(level storeopen.Level) string { return levelColours[level] + string(level) + "\x1b[0m" }

// showsColours reports whether w is a terminal whose user wants colours. NO_COLOR is
// described at no-color.org.
func showsColours(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(file.Fd()))
}
