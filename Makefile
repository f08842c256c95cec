# Millrace: thin layer over meson. Each target installs what it needs.
BUILD ?= build
PREFIX ?= /usr/local
MESON_ARGS ?=
PYTHON = /usr/bin/python3

.PHONY: all build setup demo check bench install asan tsan fuzz coverage \
	format clean

all: build

setup:
	@tools/setup build

$(BUILD)/build.ninja: | setup
	@meson setup $(BUILD) --prefix=$(PREFIX) $(MESON_ARGS) >/dev/null

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet

demo: build
	@tools/demo $(BUILD)

check:
	@tools/setup check
	@$(MAKE) --no-print-directory build
	@tools/check $(BUILD)

bench:
	@tools/setup bench
	@$(MAKE) --no-print-directory build
	@bench/run $(BUILD)

install: build
	@meson configure $(BUILD) --prefix=$(PREFIX)
	@DESTDIR=$(DESTDIR) meson install -C $(BUILD) --quiet

asan tsan:
	@tools/setup check
	@tools/sanitize $@

fuzz:
	@tools/setup check
	@tools/fuzz $(FUZZ_SECONDS)

coverage:
	@tools/setup check
	@tools/coverage

format:
	@tools/format

clean:
	rm -rf build build-* demo
