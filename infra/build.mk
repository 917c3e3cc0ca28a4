# What `sam build` calls for each resource with `BuildMethod: makefile`. The Makefile includes this.
# All functions share one artifact; they differ by handler, role, memory and timeout.
ARTIFACT_FOLDERS := functions engine connectors rules
FUNCTIONS := ScopeAdmitFunction ScopePlanFunction CollectFunction AttributeFunction PublishFunction
LAYER_PYTHON ?= 3.13
LAYER_PLATFORM ?= manylinux_2_28_aarch64
LAYER_PACKAGES := aws-lambda-powertools backports.zstd google-re2 hyperscan isal msgspec pydantic pyyaml rfc8785 stringzilla tzdata

.PHONY: $(addprefix build-,$(FUNCTIONS)) build-DependencyLayer

$(addprefix build-,$(FUNCTIONS)):
	find $(ARTIFACT_FOLDERS) -type f -name '*.py' | sort | while read -r file; do \
	  mkdir -p "$(ARTIFACTS_DIR)/$$(dirname "$$file")" && cp "$$file" "$(ARTIFACTS_DIR)/$$file"; \
	done
	mkdir -p "$(ARTIFACTS_DIR)/rules" && cp rules/VERSION "$(ARTIFACTS_DIR)/rules/"
	test -f build/compiled.json || { echo "build/compiled.json is missing: call make build" >&2; exit 1; }
	cp build/compiled.json "$(ARTIFACTS_DIR)/rules/compiled.json"
	mkdir -p "$(ARTIFACTS_DIR)/rules/automata" && cp build/automata/*.bin "$(ARTIFACTS_DIR)/rules/automata/" && chmod 644 "$(ARTIFACTS_DIR)"/rules/automata/*
	find "$(ARTIFACTS_DIR)" -exec touch -d 2020-01-01T00:00:00Z {} +

build-DependencyLayer:
	grep -E "^($(subst $() ,|,$(strip $(LAYER_PACKAGES) annotated-types pydantic-core typing-extensions typing-inspection jmespath absl-py)))==" \
	  requirements.lock | sed 's/ .*//' > "$(ARTIFACTS_DIR)/packages.txt"
	python3 -m pip install --quiet --disable-pip-version-check --only-binary :all: --no-deps \
	  --python-version $(LAYER_PYTHON) --platform $(LAYER_PLATFORM) --platform $(subst _2_28_,2014_,$(LAYER_PLATFORM)) \
	  --target "$(ARTIFACTS_DIR)/python" -r "$(ARTIFACTS_DIR)/packages.txt"
	rm "$(ARTIFACTS_DIR)/packages.txt"
