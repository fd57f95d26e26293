// Package docs contains only tests. They check the Markdown pages of the repository: code
// blocks, links, anchors and sentence length. CONTRIBUTING.md describes the rules.
package docs
