# What `sam build` calls for each resource with `BuildMethod: makefile`. The Makefile includes this.
# All functions share one artifact; they differ by handler, role, memory and timeout.
FUNCTIONS := ScopeAdmitFunction ScopePlanFunction CollectFunction AttributeFunction PublishFunction \
  ForwardFunction HandOverFunction ServeFunction ApiFunction QueryFunction
RULE_SOURCES := $(shell find rules engine -name '*.yaml' -o -name '*.py' -o -name VERSION)

.PHONY: $(addprefix build-,$(FUNCTIONS)) build-ArmLayer build-IntelLayer

build/compiled.json: $(READY) $(RULE_SOURCES)
	@rm -rf build/automata
	@$(BIN)/rootrank rules compile -o build/compiled.json

$(addprefix build-,$(FUNCTIONS)): build/compiled.json
	@$(BIN)/python scripts/artifact.py code "$(ARTIFACTS_DIR)"

build-ArmLayer: $(READY)
	@$(BIN)/python scripts/artifact.py layer "$(ARTIFACTS_DIR)" arm64

build-IntelLayer: $(READY)
	@$(BIN)/python scripts/artifact.py layer "$(ARTIFACTS_DIR)" x86_64
