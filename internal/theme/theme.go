// Package theme has the colours and the icon that the demo page and the report of a
// replay share.
package theme

import _ "embed" // for the files below

// Tokens is a style sheet with the colours of light and dark pages as CSS variables.
//
//go:embed tokens.css
var Tokens string

// Icon is the icon of Headgate as an SVG document.
//
//go:embed icon.svg
var Icon string
