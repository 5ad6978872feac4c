# For categories.

.include "prefs.mk"
.include "subdir.mk"
