package llmusage

import (
	"encoding/json"

	"github.com/headgate/headgate"
)

// Usage is the number of tokens of one answer. Each token is in one field only.
type Usage struct {
	Input      int64 // tokens of the request that were not in the provider's cache
	CacheRead  int64 // tokens of the request that were read from the cache
	CacheWrite int64 // tokens of the request that were written to the cache
	Output     int64 // tokens of the answer, including those of its reasoning
}

// Total returns the sum of all tokens.
func (u Usage) Total() int64 { return u.Input + u.CacheRead + u.CacheWrite + u.Output }

// maxTokens is the maximum of a field, so that sums and prices of usages do not overflow.
const maxTokens = headgate.MaxWindowUnits / 4

// report is a usage object of any provider. A field that is missing is nil.
type report struct {
	PromptTokens     *int64 `json:"prompt_tokens"`
	CompletionTokens *int64 `json:"completion_tokens"`
	InputTokens      *int64 `json:"input_tokens"`
	OutputTokens     *int64 `json:"output_tokens"`
	CacheRead        *int64 `json:"cache_read_input_tokens"`
	CacheWrite       *int64 `json:"cache_creation_input_tokens"`

	PromptDetails *cachedTokens `json:"prompt_tokens_details"`
	InputDetails  *cachedTokens `json:"input_tokens_details"`
}

// cachedTokens are tokens that are also counted in the tokens of the prompt.
type cachedTokens struct {
	Cached int64 `json:"cached_tokens"`
}

// merge replaces the fields of u that the usage object text has. Later objects of a
// stream are totals, not increments. merge returns false and changes nothing if text is
// not a usage object.
func (u *Usage) merge(text []byte) bool {
	var r report
	if json.Unmarshal(text, &r) != nil {
		return false
	}
	next, known := *u, false
	for _, field := range []struct {
		from *int64
		to   *int64
	}{
		{r.PromptTokens, &next.Input},
		{r.InputTokens, &next.Input},
		{r.CompletionTokens, &next.Output},
		{r.OutputTokens, &next.Output},
		{r.CacheRead, &next.CacheRead},
		{r.CacheWrite, &next.CacheWrite},
	} {
		if field.from != nil {
			*field.to, known = min(max(0, *field.from), maxTokens), true
		}
	}
	next.splitCached(r.PromptTokens, r.PromptDetails)
	next.splitCached(r.InputTokens, r.InputDetails)
	if known {
		*u = next
	}
	return known
}

// splitCached moves the cached tokens of a prompt from Input to CacheRead.
func (u *Usage) splitCached(prompt *int64, details *cachedTokens) {
	if prompt == nil || details == nil {
		return
	}
	u.CacheRead = min(max(0, details.Cached), u.Input)
	u.Input -= u.CacheRead
}
