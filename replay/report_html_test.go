package replay

import (
	"encoding/json"
	"html"
	"regexp"
	"strings"
	"testing"

	g "maragu.dev/gomponents"
	elements "maragu.dev/gomponents/html"
)

// TestHostileTextIsEscaped: text from a log cannot end the element, the attribute or the
// script data that contains it, and a browser reads the same text back.
func TestHostileTextIsEscaped(t *testing.T) {
	const inElement, inAttribute, inScript = `(?s)^<bdi>([^<>]*)</bdi>`, `<p title="([^"<>]*)"></p>`, `<script type="application/json" id="data">([^<>&]*)</script>$`
	for _, key := range []string{
		`</script><script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onload='alert(1)`, `</bdi><!--`, `&lt;b&gt; &amp;`,
		`]]><svg onload=alert(1)>`, "`${alert(1)}`", "a\u2028b", "{{.Data}}", `\u003c`, "línea ünïcode 漢字", "",
	} {
		data, err := scriptData("data", key)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := (g.Group{isolated(key), elements.P(elements.Title(key)), data}).Render(&b); err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(inElement + inAttribute + inScript).FindStringSubmatch(b.String())
		if found == nil {
			t.Errorf("%q: got %s", key, b.String())
			continue
		}
		var inData string
		if err := json.Unmarshal([]byte(found[3]), &inData); err != nil {
			t.Error(err)
		}
		if element, attribute := html.UnescapeString(found[1]), html.UnescapeString(found[2]); element != key || attribute != key || inData != key {
			t.Errorf("%q: a browser reads %q, %q and %q", key, element, attribute, inData)
		}
	}
}
