# Asks for the options of the package ${pkgbase} in ${pkgdir}, as it would be built. The answer can be kept for others.

.if defined(PBULK_CACHE_DIRECTORY)
.-include "${PBULK_CACHE_DIRECTORY}/build-options.${pkgbase}"
.endif
.if !defined(PKG_BUILD_OPTIONS.${pkgbase})
PKG_BUILD_OPTIONS.${pkgbase}!=	cd ${.CURDIR}/${pkgdir} && ${MAKE} show-var VARNAME=PKG_OPTIONS
.  if defined(PBULK_CACHE_DIRECTORY)
KEPT.${pkgbase}!=	mkdir -p ${PBULK_CACHE_DIRECTORY} && cd ${PBULK_CACHE_DIRECTORY} && \
	echo PKG_BUILD_OPTIONS.${pkgbase}=${PKG_BUILD_OPTIONS.${pkgbase}} >new.$$$$ && mv new.$$$$ build-options.${pkgbase}
.  endif
.endif
