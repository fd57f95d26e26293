package rlsapi

import (
	"unicode/utf8"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// codec reads requests and writes responses of the usual form with few allocations. The
// library reads and writes all others, and returns every error.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	req, ok := v.(*pb.RateLimitRequest)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	body := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer body.Free()
	if readRequest(string(body.ReadOnlyData()), req) {
		return nil
	}
	req.Reset()
	return c.CodecV2.Unmarshal(data, req)
}

// Marshal writes a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if resp, ok := v.(*pb.RateLimitResponse); ok && isPlain(resp) {
		return mem.BufferSlice{mem.SliceBuffer(appendResponse(make([]byte, 0, 64*(1+len(resp.Statuses))), resp))}, nil
	}
	return c.CodecV2.Marshal(v)
}

// The tags of fields that are read here: the field's number and its wire type, in one
// byte.
const (
	tagDomain     = 1<<3 | byte(protowire.BytesType)
	tagDescriptor = 2<<3 | byte(protowire.BytesType)
	tagHits       = 3<<3 | byte(protowire.VarintType)
	tagEntry      = 1<<3 | byte(protowire.BytesType)
	tagKey        = 1<<3 | byte(protowire.BytesType)
	tagValue      = 2<<3 | byte(protowire.BytesType)
)

// readVarint reads the number that s begins with, and returns its length; 0 if there is
// none.
func readVarint(s string) (n uint64, length int) {
	for i := range min(len(s), 9) {
		n |= uint64(s[i]&0x7f) << (7 * i)
		if s[i] < 0x80 {
			return n, i + 1
		}
	}
	return 0, 0
}

// readField reads the next field: its tag, its number or its text, and what follows. It
// is not ok if the field is none of the tags above.
func readField(s string) (tag byte, number uint64, text, rest string, ok bool) {
	tag = s[0]
	number, n := readVarint(s[1:])
	if n == 0 {
		return tag, 0, "", "", false
	}
	rest = s[1+n:]
	if tag == tagHits {
		return tag, number, "", rest, true
	}
	if tag != tagDomain && tag != tagDescriptor || number > uint64(len(rest)) {
		return tag, 0, "", "", false
	}
	return tag, 0, rest[:number], rest[number:], true
}

// maxPlain is the most descriptors that are read here, each with room for entries. More
// of them are mostly refused, and may have no entries.
const maxPlain = 64

// singleDescriptor is the only descriptor of a request, with up to two entries, as most
// are.
type singleDescriptor struct {
	descriptor  ratelimit.RateLimitDescriptor
	descriptors [1]*ratelimit.RateLimitDescriptor
	entry       [2]ratelimit.RateLimitDescriptor_Entry
	entries     [2]*ratelimit.RateLimitDescriptor_Entry
}

// readRequest reads a request with a domain, hits, and descriptors with entries. It
// reports whether the request has no other field. The request shares s.
func readRequest(s string, req *pb.RateLimitRequest) bool {
	for s != "" {
		tag, number, text, rest, ok := readField(s)
		switch {
		case !ok:
			return false
		case tag == tagHits:
			req.HitsAddend = uint32(number)
		case tag == tagDomain && utf8.ValidString(text):
			req.Domain = text
		case tag == tagDomain:
			return false
		case tag == tagDescriptor && (len(req.Descriptors) == maxPlain || !readDescriptor(text, req)):
			return false
		}
		s = rest
	}
	return true
}

// readDescriptor adds a descriptor with entries.
func readDescriptor(s string, req *pb.RateLimitRequest) bool {
	m := new(singleDescriptor)
	m.descriptor.Entries = m.entries[:0]
	for s != "" {
		tag, _, text, rest, ok := readField(s)
		if !ok || tag != tagEntry {
			return false
		}
		e := new(ratelimit.RateLimitDescriptor_Entry)
		if n := len(m.descriptor.Entries); n < len(m.entry) {
			e = &m.entry[n]
		}
		if !readEntry(text, e) {
			return false
		}
		m.descriptor.Entries = append(m.descriptor.Entries, e)
		s = rest
	}
	if req.Descriptors == nil {
		req.Descriptors = m.descriptors[:0]
	}
	req.Descriptors = append(req.Descriptors, &m.descriptor)
	return true
}

func readEntry(s string, e *ratelimit.RateLimitDescriptor_Entry) bool {
	for s != "" {
		tag, _, text, rest, ok := readField(s)
		switch {
		case !ok || !utf8.ValidString(text):
			return false
		case tag == tagKey:
			e.Key = text
		case tag == tagValue:
			e.Value = text
		default:
			return false
		}
		s = rest
	}
	return true
}

// isPlain reports whether a response has statuses and nothing else.
func isPlain(r *pb.RateLimitResponse) bool {
	return r.ResponseHeadersToAdd == nil && r.RequestHeadersToAdd == nil && r.RawBody == nil && r.DynamicMetadata == nil && r.Quota == nil
}

// appendResponse appends a plain response.
func appendResponse(b []byte, r *pb.RateLimitResponse) []byte {
	b = appendNumber(b, 1, uint64(r.OverallCode))
	for _, s := range r.Statuses {
		b = protowire.AppendTag(b, 2, protowire.BytesType)
		b = appendMessage(b, func(b []byte) []byte { return appendStatus(b, s) })
	}
	return b
}

func appendStatus(b []byte, s *pb.RateLimitResponse_DescriptorStatus) []byte {
	b = appendNumber(b, 1, uint64(s.Code))
	if l := s.CurrentLimit; l != nil {
		b = protowire.AppendTag(b, 2, protowire.BytesType)
		b = appendMessage(b, func(b []byte) []byte {
			b = appendNumber(appendNumber(b, 1, uint64(l.RequestsPerUnit)), 2, uint64(l.Unit))
			if l.Name != "" {
				b = protowire.AppendString(protowire.AppendTag(b, 3, protowire.BytesType), l.Name)
			}
			return b
		})
	}
	b = appendNumber(b, 3, uint64(s.LimitRemaining))
	if d := s.DurationUntilReset; d != nil {
		b = protowire.AppendTag(b, 4, protowire.BytesType)
		b = appendMessage(b, func(b []byte) []byte {
			return appendNumber(appendNumber(b, 1, uint64(d.Seconds)), 2, uint64(d.Nanos))
		})
	}
	return b
}

// appendNumber appends a field, unless it is 0.
func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// appendMessage appends the length of a message, in most cases one byte, and the message.
func appendMessage(b []byte, write func([]byte) []byte) []byte {
	begin := len(b)
	b = write(append(b, 0))
	n := len(b) - begin - 1
	if n < 0x80 {
		b[begin] = byte(n)
		return b
	}
	var length [9]byte
	head := protowire.AppendVarint(length[:0], uint64(n))
	b = append(b, head[1:]...)
	copy(b[begin+len(head):], b[begin+1:begin+1+n])
	copy(b[begin:], head)
	return b
}
