package main

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"testing"
)

// BenchmarkAESGCM is what bounds TLS: a record of 16 KiB, encrypted and decrypted by one core.
func BenchmarkAESGCM(b *testing.B) {
	for _, bits := range []int{128, 256} {
		block, err := aes.NewCipher(make([]byte, bits/8))
		if err != nil {
			b.Fatal(err)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			b.Fatal(err)
		}
		const record = 16 << 10
		plain, nonce, header := make([]byte, record), make([]byte, aead.NonceSize()), make([]byte, 5)
		sealed, opened := make([]byte, 0, record+aead.Overhead()), make([]byte, 0, record)
		b.Run(fmt.Sprintf("%d bits/encrypt", bits), func(b *testing.B) {
			b.SetBytes(record)
			for b.Loop() {
				sealed = aead.Seal(sealed[:0], nonce, plain, header)
			}
		})
		sealed = aead.Seal(sealed[:0], nonce, plain, header)
		b.Run(fmt.Sprintf("%d bits/decrypt", bits), func(b *testing.B) {
			b.SetBytes(record)
			for b.Loop() {
				if opened, err = aead.Open(opened[:0], nonce, sealed, header); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
