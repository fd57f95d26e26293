package rlsapi

import (
	"errors"
	"fmt"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var errFieldNumber = errors.New("invalid field number")

// decodeRequest decodes the protobuf encoding b of a request into req. It differs from
// the protobuf library in three ways:
//
//   - A string may contain any bytes. Envoy copies the bytes of header fields into
//     entries, and the library would return an error for text that is not UTF-8.
//   - It decodes only as many descriptors and entries as [isTooLarge] needs to
//     deny the request.
//   - It discards unknown fields.
func decodeRequest(b []byte, req *pb.RateLimitRequest) error {
	entries := 0
	err := eachField(b, func(tag, number uint64, value []byte) error {
		switch tag {
		case uint64(tagDomain):
			req.Domain = string(value)
		case uint64(tagHits):
			req.HitsAddend = uint32(number)
		case uint64(tagDescriptor):
			if len(req.Descriptors) > maxDescriptors || entries > maxEntries {
				return nil
			}
			d := new(ratelimit.RateLimitDescriptor)
			req.Descriptors = append(req.Descriptors, d)
			return decodeDescriptor(value, d, &entries)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("invalid RateLimitRequest: %w", err)
	}
	return nil
}

// The tags of the fields of a descriptor that readDescriptor does not decode.
const (
	tagLimit    = 2<<3 | uint64(protowire.BytesType)
	tagOwnHits  = 3<<3 | uint64(protowire.BytesType)
	tagNegative = 4<<3 | uint64(protowire.VarintType)
)

// decodeDescriptor decodes b into d. It adds the number of entries in b to *entries, and
// does not decode entries that exceed maxEntries by more than one.
func decodeDescriptor(b []byte, d *ratelimit.RateLimitDescriptor, entries *int) error {
	return eachField(b, func(tag, number uint64, value []byte) error {
		switch tag {
		case uint64(tagEntry):
			if *entries > maxEntries {
				return nil
			}
			*entries++
			e := new(ratelimit.RateLimitDescriptor_Entry)
			d.Entries = append(d.Entries, e)
			return decodeEntry(value, e)
		case tagLimit:
			if d.Limit == nil {
				d.Limit = new(ratelimit.RateLimitDescriptor_RateLimitOverride)
			}
			return decodeLimit(value, d.Limit)
		case tagOwnHits:
			if d.HitsAddend == nil {
				d.HitsAddend = new(wrapperspb.UInt64Value)
			}
			return decodeUint64(value, d.HitsAddend)
		case tagNegative:
			d.IsNegativeHits = number != 0
		}
		return nil
	})
}

func decodeEntry(b []byte, e *ratelimit.RateLimitDescriptor_Entry) error {
	return eachField(b, func(tag, _ uint64, value []byte) error {
		switch tag {
		case uint64(tagKey):
			e.Key = string(value)
		case uint64(tagValue):
			e.Value = string(value)
		}
		return nil
	})
}

func decodeLimit(b []byte, l *ratelimit.RateLimitDescriptor_RateLimitOverride) error {
	return eachField(b, func(tag, number uint64, _ []byte) error {
		switch tag {
		case 1<<3 | uint64(protowire.VarintType):
			l.RequestsPerUnit = uint32(number)
		case 2<<3 | uint64(protowire.VarintType):
			l.Unit = typev3.RateLimitUnit(int32(number))
		}
		return nil
	})
}

func decodeUint64(b []byte, to *wrapperspb.UInt64Value) error {
	return eachField(b, func(tag, number uint64, _ []byte) error {
		if tag == 1<<3|uint64(protowire.VarintType) {
			to.Value = number
		}
		return nil
	})
}

// eachField calls visit for each field of the message b, with its tag and its value: a
// number or the bytes, depending on the wire type in the tag. eachField returns an error
// if b is not a valid message.
func eachField(b []byte, visit func(tag, number uint64, value []byte) error) error {
	for len(b) > 0 {
		field, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if field > protowire.MaxValidNumber {
			return errFieldNumber
		}
		size := protowire.ConsumeFieldValue(field, wire, b[n:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		var number uint64
		var value []byte
		switch wire {
		case protowire.VarintType:
			number, _ = protowire.ConsumeVarint(b[n:])
		case protowire.BytesType:
			value, _ = protowire.ConsumeBytes(b[n:])
		}
		if err := visit(uint64(field)<<3|uint64(wire), number, value); err != nil {
			return err
		}
		b = b[n+size:]
	}
	return nil
}
