// Package docsite contains only tests. They build the documentation site with
// scripts/site, check its links, and use it in a browser.
package docsite
