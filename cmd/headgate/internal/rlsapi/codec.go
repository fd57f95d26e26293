package rlsapi

import (
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// codec is the gRPC codec of this endpoint. It decodes all rate limit requests itself:
// those with only the common fields with few allocations, and the others with
// [decodeRequest]. It encodes responses with the common fields itself. The protobuf
// library handles all other messages.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Unmarshal decodes the message in data into v. A RateLimitRequest may contain any bytes
// in its strings; see [decodeRequest].
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
	return decodeRequest(body.ReadOnlyData(), req)
}

// Marshal encodes the message v.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if resp, ok := v.(*pb.RateLimitResponse); ok && isPlain(resp) {
		return mem.BufferSlice{mem.SliceBuffer(appendResponse(make([]byte, 0, 64*(1+len(resp.Statuses))), resp))}, nil
	}
	return c.CodecV2.Marshal(v)
}

// The tags of the fields that codec decodes itself. A tag is the field's number and its
// wire type in one byte.
const (
	tagDomain     = 1<<3 | byte(protowire.BytesType)
	tagDescriptor = 2<<3 | byte(protowire.BytesType)
	tagHits       = 3<<3 | byte(protowire.VarintType)
	tagEntry      = 1<<3 | byte(protowire.BytesType)
	tagKey        = 1<<3 | byte(protowire.BytesType)
	tagValue      = 2<<3 | byte(protowire.BytesType)
)

// readVarint decodes the varint at the start of s and returns its length in bytes. The
// length is 0 if s does not start with a varint of at most 9 bytes.
func readVarint(s string) (n uint64, length int) {
	for i := range min(len(s), 9) {
		n |= uint64(s[i]&0x7f) << (7 * i)
		if s[i] < 0x80 {
			return n, i + 1
		}
	}
	return 0, 0
}

// readField decodes the first field in s. It returns the field's tag, its value as a
// number or as a text, and the rest of s after the field. ok is false if the field is
// incomplete or has none of the tags above.
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

// maxPlain is the maximum number of descriptors in a request, and of entries in a
// descriptor, that readRequest decodes, because it allocates room for entries with each
// descriptor. [decodeRequest] decodes requests with more.
const maxPlain = 64

// singleDescriptor is the memory for a descriptor with up to two entries that is the
// only one in its request, as in most requests: one allocation instead of several.
type singleDescriptor struct {
	descriptor  ratelimit.RateLimitDescriptor
	descriptors [1]*ratelimit.RateLimitDescriptor
	entry       [2]ratelimit.RateLimitDescriptor_Entry
	entries     [2]*ratelimit.RateLimitDescriptor_Entry
}

// readRequest decodes s into req, and reports whether s has only the fields domain,
// hits_addend, and descriptors with entries. The strings in req share the memory of s.
func readRequest(s string, req *pb.RateLimitRequest) bool {
	for s != "" {
		tag, number, text, rest, ok := readField(s)
		switch {
		case !ok:
			return false
		case tag == tagHits:
			req.HitsAddend = uint32(number)
		case tag == tagDomain:
			req.Domain = text
		case tag == tagDescriptor && (len(req.Descriptors) == maxPlain || !readDescriptor(text, req)):
			return false
		}
		s = rest
	}
	return true
}

// readDescriptor decodes a descriptor and appends it to req. It returns false if the
// descriptor has fields that are not entries.
func readDescriptor(s string, req *pb.RateLimitRequest) bool {
	m := new(singleDescriptor)
	m.descriptor.Entries = m.entries[:0]
	for s != "" {
		tag, _, text, rest, ok := readField(s)
		if !ok || tag != tagEntry || len(m.descriptor.Entries) == maxPlain {
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
		case !ok:
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

// isPlain reports whether a response has no fields except the overall code and
// statuses.
func isPlain(r *pb.RateLimitResponse) bool {
	return r.ResponseHeadersToAdd == nil && r.RequestHeadersToAdd == nil && r.RawBody == nil && r.DynamicMetadata == nil && r.Quota == nil
}

// appendResponse appends the encoding of a response for which isPlain is true.
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

// appendNumber appends a field with the number n, or nothing if n is 0.
func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// appendMessage appends the message that write encodes, with its length, which mostly
// takes one byte, in front.
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
