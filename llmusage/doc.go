// Package llmusage reads the usage of a language model from its answer, while the answer
// is copied to the client, and commits it to a hold.
//
//	hold, err := headgate.HoldAll(ctx, &headgate.HoldOptions{TTL: ttl}, checks...)
//	…
//	resp, err := client.Do(upstream)
//	…
//	opts := &llmusage.Options{Estimate: estimate, Cost: cost}
//	if err := llmusage.Track(ctx, resp, hold, opts); err != nil {
//		hold.Cancel(ctx) // no usage is read and nothing commits the hold
//		…
//	}
//	io.Copy(w, resp.Body)
//	resp.Body.Close() // commits
//
// # Answers
//
// Two kinds of answers are read: a JSON object, and a stream of server-sent events. In
// both, the usage is the object “usage” at the top level, or in “message” or “response”
// at the top level, as in the APIs of OpenAI, of Anthropic and of programs that are
// compatible with one of them. The same text in the output of the model, or deeper in the
// answer, is not read. OpenAI's chat completions report the usage of a stream only if the
// request has stream_options: {"include_usage": true}: add it before you forward the
// request.
//
// Each byte is read once, when the caller reads it. Nothing is delayed or buffered, apart
// from one usage object of at most 4 KiB.
//
// # Compressed answers
//
// An answer with Content-Encoding: gzip is decompressed for reading, up to 64 MiB. The
// usage in an answer with another encoding is unknown. A gateway avoids both if it
// removes Accept-Encoding from the request that it forwards: net/http then decompresses
// the answer itself.
package llmusage
