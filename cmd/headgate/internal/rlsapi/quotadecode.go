package rlsapi

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// Limits on one report. They bound the memory of its decoded form.
const (
	maxReportBuckets = 2 * maxStreamBuckets
	maxReportEntries = 8 * maxReportBuckets // of all buckets together
)

var errLongReport = status.Errorf(codes.ResourceExhausted, "the report has more than %d buckets, or more than %d entries of buckets; use fewer buckets", maxReportBuckets, maxReportEntries)

// quotaReport is a RateLimitQuotaUsageReports.
type quotaReport struct {
	domain  string
	usages  []quotaUsage
	entries int    // number of entries in usages
	release func() // ends the reservation of memory; nil if there is none
}

// free ends the reservation of memory. r may be nil.
func (r *quotaReport) free() {
	if r != nil && r.release != nil {
		r.release()
		r.release = nil
	}
}

// quotaUsage is the use of one bucket since its last report.
type quotaUsage struct {
	entries         []envoyconfig.Entry // entries of the bucket's id, sorted by key
	allowed, denied uint64              // numbers of requests
	elapsed         time.Duration       // as the client measured it, in whole seconds
}

// The tags of the fields of a report that are not the domain or a usage.
const (
	tagBucketID = 1<<3 | uint64(protowire.BytesType)
	tagElapsed  = 2<<3 | uint64(protowire.BytesType)
	tagAllowed  = 3<<3 | uint64(protowire.VarintType)
	tagDenied   = 4<<3 | uint64(protowire.VarintType)

	tagSeconds = 1<<3 | uint64(protowire.VarintType)
	tagNanos   = 2<<3 | uint64(protowire.VarintType)
)

// decodeReport decodes the protobuf encoding b of a report. As in [decodeRequest], a
// string may contain any bytes, and unknown fields are discarded.
func decodeReport(b []byte) (*quotaReport, error) {
	r := new(quotaReport)
	err := eachField(b, func(tag, _ uint64, value []byte) error {
		switch tag {
		case uint64(tagDomain):
			r.domain = string(value)
		case uint64(tagDescriptor): // bucket_quota_usages has the same number
			return r.decodeUsage(value)
		}
		return nil
	})
	if errors.Is(err, errLongReport) {
		return nil, errLongReport
	}
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "invalid RateLimitQuotaUsageReports: %v", err)
	}
	return r, nil
}

func (r *quotaReport) decodeUsage(b []byte) error {
	if len(r.usages) == maxReportBuckets {
		return errLongReport
	}
	r.usages = append(r.usages, quotaUsage{})
	u := &r.usages[len(r.usages)-1]
	err := eachField(b, func(tag, number uint64, value []byte) (err error) {
		switch tag {
		case tagBucketID:
			return r.decodeID(u, value)
		case tagElapsed:
			u.elapsed, err = decodeDuration(value)
		case tagAllowed:
			u.allowed = number
		case tagDenied:
			u.denied = number
		}
		return err
	})
	u.sort()
	return err
}

func (r *quotaReport) decodeID(u *quotaUsage, b []byte) error {
	return eachField(b, func(tag, _ uint64, value []byte) error {
		if tag != uint64(tagEntry) {
			return nil
		}
		if r.entries++; r.entries > maxReportEntries {
			return errLongReport
		}
		return u.decodeEntry(value)
	})
}

func (u *quotaUsage) decodeEntry(b []byte) error {
	var e envoyconfig.Entry
	u.entries = append(u.entries, e)
	last := &u.entries[len(u.entries)-1]
	return eachField(b, func(tag, _ uint64, value []byte) error {
		switch tag {
		case uint64(tagKey):
			last.Key = string(value)
		case uint64(tagValue):
			last.Value = string(value)
		}
		return nil
	})
}

// sort sorts the entries by key. Of entries with the same key the last one counts, as in
// every map of protobuf.
func (u *quotaUsage) sort() {
	slices.Reverse(u.entries)
	slices.SortStableFunc(u.entries, func(a, b envoyconfig.Entry) int { return cmp.Compare(a.Key, b.Key) })
	u.entries = slices.CompactFunc(u.entries, func(a, b envoyconfig.Entry) bool { return a.Key == b.Key })
}

func decodeDuration(b []byte) (time.Duration, error) {
	var seconds, nanos int64
	err := eachField(b, func(tag, number uint64, _ []byte) error {
		switch tag {
		case tagSeconds:
			seconds = int64(number)
		case tagNanos:
			nanos = int64(int32(number))
		}
		return nil
	})
	if seconds < 0 || nanos < 0 {
		return -1, err
	}
	const most = int64(math.MaxInt64 / time.Second)
	return time.Duration(min(seconds, most-1))*time.Second + time.Duration(nanos), err
}

// maxReported is the maximum number of requests in a usage. A greater number is a
// negative one that was converted.
const maxReported = math.MaxInt64

// check returns a status error if the usage can't have been measured.
func (u *quotaUsage) check() error {
	switch {
	case len(u.entries) == 0:
		return status.Error(codes.InvalidArgument, "bucket_id is empty; it must have at least one entry, so add one to bucket_id_builder")
	case u.allowed > maxReported:
		return status.Errorf(codes.InvalidArgument, "num_requests_allowed is %d; must be at most %d", u.allowed, int64(maxReported))
	case u.denied > maxReported:
		return status.Errorf(codes.InvalidArgument, "num_requests_denied is %d; must be at most %d", u.denied, int64(maxReported))
	case u.elapsed < 0:
		return status.Error(codes.InvalidArgument, "time_elapsed is negative; must be 0 or more")
	}
	return nil
}

// isText reports whether the id of the bucket is UTF-8. Otherwise no response can contain
// it.
func (u *quotaUsage) isText() bool {
	return !slices.ContainsFunc(u.entries, func(e envoyconfig.Entry) bool {
		return !utf8.ValidString(e.Key) || !utf8.ValidString(e.Value)
	})
}

// name returns a text that identifies the bucket within its stream.
func (u *quotaUsage) name() string {
	var b []byte
	for _, e := range u.entries {
		b = fmt.Appendf(b, "%d:%s%d:%s", len(e.Key), e.Key, len(e.Value), e.Value)
	}
	return string(b)
}
