package tlsfiles_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	ends time.Time // of the certificates it signs
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, ends: time.Now().Add(time.Hour)}
	a.cert, a.key = a.sign(1, "authority")
	return a
}

// sign makes a certificate; the first one is the authority's own.
func (a *authority) sign(serial int64, name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, NotAfter: a.ends,
		IsCA: a.cert == nil, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	issuer, by := a.cert, a.key
	if issuer == nil {
		issuer, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, by)
	must(a.t, err)
	cert, err := x509.ParseCertificate(der)
	must(a.t, err)
	return cert, key
}

// write replaces tls.key, tls.crt and ca.crt in a folder.
func (a *authority) write(dir string, serial int64, name string) {
	a.t.Helper()
	cert, key := a.sign(serial, name)
	der, err := x509.MarshalECPrivateKey(key)
	must(a.t, err)
	for file, block := range map[string]*pem.Block{
		"tls.key": {Type: "EC PRIVATE KEY", Bytes: der},
		"tls.crt": {Type: "CERTIFICATE", Bytes: cert.Raw},
		"ca.crt":  {Type: "CERTIFICATE", Bytes: a.cert.Raw},
	} {
		replace(a.t, filepath.Join(dir, file), pem.EncodeToMemory(block))
	}
}

// replace writes a file in one step.
func replace(t *testing.T, path string, text []byte) {
	t.Helper()
	must(t, os.WriteFile(path+".new", text, 0o600))
	must(t, os.Rename(path+".new", path))
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return text
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
